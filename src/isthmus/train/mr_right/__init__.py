"""Mr. Right as its paper prints it: both towers are trained, one mean over all tokens, a matcher that reads both.

recipe         the settings, with the paper's as defaults
start          the towers of an encoder's folder as torch modules: what a training starts from
model          documents and queries into one space; matcher: two classes for a pair
randaugment    random crops and RandAugment of a batch of pictures
tensors        pairs as tokens and pixels of fixed sizes
step           one step: contrast (DQC), hard negatives of queries and of documents, matching (DQM)
loop           epochs, learning rate, checkpoints; measure: R@1
export         an encoder's folder for ``onnx:FOLDER``; make: all of it, from pairs to files
maps           Grad-CAM on the matcher's attention

The other room, ``isthmus.train.fusion``, trains our own variant on frozen towers. Reading pairs, queues, the contrast
and the layers are the same code there and here.

Reference: Hsieh et al., Mr. Right: Multimodal Retrieval on Representation of ImaGe witH Text (2022, arXiv 2209.13764).
docs/papers/mr_right.md has the settings, the differences and the results.
"""
