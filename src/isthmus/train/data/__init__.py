"""Training data: pictures with texts, read from packed files.

    flickr8k/, docvqa/, emoji/, drawings, WordNet  →  python -m isthmus.train.data DIR OUT  →  OUT/flickr8k, OUT/pages …
    COCO's photos  →  the script that comes with its captions  →  OUT/coco, OUT/coco-plain

Each of the folders holds packed pictures (``packs``). Training reads nothing else.
"""
