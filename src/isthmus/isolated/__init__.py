"""Libraries that can run away, each in a process of its own.

pdfium, the HTML parser, pyarrow and the decoders of AVIF, HEIF and JPEG 2000 read files in C++ and C. A file made for
it can keep them busy without end, fill the memory, or end the process. So each runs in a worker process: started when
the first file needs it, used for many files, given a limit of memory, and killed by us when it takes too long. A file
that does so is skipped; the next one gets a new worker. Small web pages and pictures, which cannot take long, do not
need the worker.

    worker.Worker ──request──▸ main.serve ──▸ pdf | html | parquet | picture      (the worker process)
                  ◂──answer───

Requests and answers are JSON and bytes, each with its length in front; nothing is unpickled. A worker ends when its
standard input does, so none outlives us.
"""
