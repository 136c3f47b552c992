"""Train one vector for documents with text and image, as in Mr. Right, on top of frozen towers.

model        documents and queries into one space; matcher: a logit for a pair; layers: their building blocks
objectives   contrast (DQC) and matching (DQM)
queues       recent representations, first in, first out
data         pairs in the layout of the Mr. Right benchmark
features     outputs of the towers for every text and picture, computed once; lessons: pairs as training input
recipe       the settings of a training
loop         the training loop; steps: one step; run: the state to resume from; measure: R@1
echo         how much words about one part count for the other, chosen on held-out pairs
export       ONNX files and their description, for ``onnx:FOLDER``; make: all of it, from pairs to files

Reference: Hsieh et al., Mr. Right: Multimodal Retrieval on Representation of ImaGe witH Text (2022, arXiv 2209.13764).
docs/fusion.md has the differences and the results. ``isthmus.train.mr_right`` trains the paper's own model.
"""
