"""Learn one vector for documents that hold both: Mr. Right's training, over towers that stay as they are.

model        documents and queries into one space; matcher: a logit for a pair; layers: what both are made of
objectives   contrast (DQC) and matching (DQM)
queues       recent representations, first in, first out
data         pairs in the layout of the Mr. Right benchmark
features     what the towers see of every text and picture, computed once; lessons: pairs as the model meets them
recipe       every number of a training, and the paper's own
loop         the training, on one screen; steps: what each step does; run: what it takes to go on; measure: R@1
export       ONNX files and their description, for ``onnx:FOLDER``; make: all of it, from pairs to files

Reference: Hsieh et al., Mr. Right: Multimodal Retrieval on Representation of ImaGe witH Text (2022, arXiv 2209.13764).
docs/fusion.md says how we differ, and what it gives.
"""
