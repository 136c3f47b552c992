"""Run libraries that may hang or crash in worker processes.

pdfium, the HTML parser, pyarrow and the decoders of sounds, videos, AVIF, HEIF and JPEG 2000 read files in C++ and C. A
malicious file can make them hang, exhaust the memory, or crash the process. So each runs in a worker process: it starts
when the first file needs it, reads many files, has a memory limit, and is killed when it takes too long. Such a file is
skipped; the next file gets a new worker. Small web pages and pictures are read in this process, because they cannot
take long.

    worker.Worker ──request──▸ main.serve ──▸ pdf | html | parquet | picture | media   (the worker process)
                  ◂──answer───

Requests and answers are JSON and bytes, each prefixed by its length; nothing is unpickled. A worker exits when its
standard input closes, so it does not outlive this process.
"""
