"""Optical character recognition: what a picture says becomes text.

engine        rapidocr: lines of text, in reading order
order         the reading order of boxes
page          reads whole pages: long, turned, huge
cache         texts that were read, by the hash of the picture
pool          worker processes that read pages in parallel
words         counts words: what has enough beside it is not read
"""
