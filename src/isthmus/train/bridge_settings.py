"""The settings that BRIDGE prints (arXiv 2604.07201, sections 3.4, 3.5 and 4.2), for ``--paper``.

FORGE   Qwen2.5-7B-Instruct; G = 8 rewrites, learning rate 1e-6, at most 256 tokens and 200 words, 3 epochs; reward
        nDCG@k of LENS; advantage r − mean; hard negatives of BM25 and LENS
LENS    Qwen3-Embedding-4B; M = 7 hard negatives and those of the batch, τ = 0.02, batch 512, learning rate 1e-5, 3
        epochs; hard negatives of BM25 and of a first checkpoint; cosine of the vectors of the [EOS] token

Not printed, so ours: the queries of a FORGE step, its temperature, KL and clipping (none), k = 10, how many hard
negatives FORGE has and what they are for, LENS's lengths, schedule and weight decay, the length
of FORGE's input (384 tokens), its gradient norm (1). The paper trains on four GPUs.
Here FORGE is trained on one, and of LENS the best epoch by held-out queries is kept, the start included.
"""

from __future__ import annotations

from isthmus.train.forge import ForgeRecipe
from isthmus.train.lens import LensRecipe

FORGE_MODEL = "Qwen/Qwen2.5-7B-Instruct"
FORGE = ForgeRecipe(rate=1e-6, group=8)
FORGE_EPOCHS = 3
LENS_MODEL = "Qwen/Qwen3-Embedding-4B"
LENS = LensRecipe(negatives=7, temperature=0.02, batch=512, rate=1e-5, epochs=3, patience=3, shares=(1.0,))
