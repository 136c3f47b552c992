"""Libraries that can run away, each in a process of its own.

pdfium, the HTML parser and pyarrow read files in C++ and C. A file made for it can keep them busy without end, fill the
memory, or end the process. So each runs in a worker process: started when the first file needs it, used for many files,
given a limit of memory, and killed by us when it takes too long. A file that does so is skipped; the next one gets a
new worker.

    worker.Worker ──request──▸ main.serve ──▸ pdf | html | parquet      (the worker process)
                  ◂──answer───

Requests and answers are JSON and bytes, each with its length in front; nothing is unpickled. A worker ends when its
standard input does, so none outlives us.
"""
