"""CLIP's image tower, a vision transformer (ViT), as an ONNX model: pixels in, unit vectors of isthmus's space out.

    x = [class; patches · P] + positions                    197 tokens of 768 numbers: 14 × 14 patches and the class
    x = LN(x)
    x = x + O · softmax(QKᵀ/√64) V                           12 layers: attention with 12 heads of 64 numbers,
    x = x + F₂ · g(F₁ · LN(x)),  g(a) = a · σ(1.702 a)       and two linear maps
    c = unit(V · LN(x_class))                                CLIP's embedding, 512 numbers
    vector = unit(W c + b + W₂ gelu(W₁ c + b₁))              the projection; its second term is optional

Reference: Radford et al. 2021, *Learning Transferable Visual Models From Natural Language Supervision*, section 2.4;
the names of the weights are those of Hugging Face's CLIPVisionModelWithProjection. We deviate in nothing that changes a
vector by more than rounding: the last layer computes the class token only, the others of it are not used.

All arithmetic is in float32, so that a vector does not depend on the pictures in the same batch. Weights that are
stored in 8 bits stay so in the model, next to their scales; onnxruntime multiplies them when it loads the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isthmus.encoders.clip import ClipTower, Floats, Quantized
from isthmus.encoders.graph import TYPES, Graph, Tensor
from isthmus.encoders.projection import ClipProjection

MEAN = (0.48145466, 0.4578275, 0.40821073)  # of CLIP's training pictures, RGB in 0 … 1
STD = (0.26862954, 0.26130258, 0.27577711)
HEAD = 64  # numbers of an attention head, in every CLIP
EPSILON = 1e-5  # of the layer norms
QUICK = 1.702


def build(tower: ClipTower, projection: ClipProjection) -> bytes:
    """Return the model: ``pixels``, uint8 (n, size, size, 3), to ``vectors``, float32 (n, dim)."""
    made = Vit(Graph(), tower)
    last = tower.layers - 1
    x = made.norm(made.tokens("pixels"), "vision_model.pre_layrnorm")
    for layer in range(tower.layers):
        x = made.layer(x, f"vision_model.encoder.layers.{layer}", only_class=layer == last)
    x = made.norm(made.first(x), "vision_model.post_layernorm")  # (n, 768)
    c = made.unit(made.graph.node("MatMul", [x, made.matrix("visual_projection.weight")]))
    made.unit(made.projected(c, projection), output="vectors")
    given = Tensor("pixels", np.uint8, ("n", tower.size, tower.size, 3))
    return made.graph.model(given, Tensor("vectors", np.float32, ("n", projection.dim)))


@dataclass(frozen=True, slots=True, eq=False)
class Vit:
    """The graph while it is built, and the weights; each method adds nodes and returns the name of their output."""

    graph: Graph
    tower: ClipTower

    def tokens(self, pixels: str) -> str:
        """Return the class and the patches with their positions, (n, 1 + patches, width)."""
        graph, patch = self.graph, self.tower.patch
        mean, std = np.array(MEAN, np.float32) * 255, np.array(STD, np.float32) * 255
        x = graph.node("Sub", [graph.node("Cast", [pixels], {"to": TYPES["float32"]}), graph.constant(mean)])
        x = graph.node("Transpose", [graph.node("Div", [x, graph.constant(std)])], {"perm": [0, 3, 1, 2]})
        patches = graph.constant(self.tower.array("vision_model.embeddings.patch_embedding.weight"))
        x = graph.node("Conv", [x, patches], {"strides": [patch, patch], "kernel_shape": [patch, patch]})
        x = self.reshape(x, [0, self.tower.width, -1])  # (n, width, patches)
        x = graph.node("Transpose", [x], {"perm": [0, 2, 1]})
        x = graph.node(
            "Pad", [x, graph.constant(np.array([0, 1, 0, 0, 0, 0]))]
        )  # a row of zeros: the place of the class
        places = self.tower.array("vision_model.embeddings.position_embedding.weight").copy()
        places[0] += self.tower.array("vision_model.embeddings.class_embedding")
        return graph.node("Add", [x, graph.constant(places)])

    def layer(self, x: str, name: str, *, only_class: bool) -> str:
        """Return the tokens after a layer, or the class token after the last one."""
        graph = self.graph
        normed = self.norm(x, f"{name}.layer_norm1")
        asked, x = (self.first(each, keep=True) if only_class else each for each in (normed, x))
        attended = self.linear(self.attention(asked, normed, f"{name}.self_attn"), f"{name}.self_attn.out_proj")
        x = graph.node("Add", [x, attended])
        wide = self.linear(self.norm(x, f"{name}.layer_norm2"), f"{name}.mlp.fc1")
        gate = graph.node("Sigmoid", [graph.node("Mul", [wide, graph.constant(np.float32(QUICK))])])
        return graph.node("Add", [x, self.linear(graph.node("Mul", [wide, gate]), f"{name}.mlp.fc2")])

    def attention(self, asked: str, tokens: str, name: str) -> str:
        """Return softmax(QKᵀ/√64) V of all heads, side by side."""
        graph = self.graph
        query, key, value = (
            self.heads(self.linear(x, f"{name}.{which}_proj"), turned=which == "k")
            for which, x in (("q", asked), ("k", tokens), ("v", tokens))
        )
        query = graph.node("Mul", [query, graph.constant(np.float32(HEAD**-0.5))])
        weights = graph.node("Softmax", [graph.node("MatMul", [query, key])], {"axis": -1})  # (n, heads, t, t)
        mixed = graph.node("Transpose", [graph.node("MatMul", [weights, value])], {"perm": [0, 2, 1, 3]})
        return self.reshape(mixed, [0, 0, self.tower.width])

    def heads(self, x: str, *, turned: bool) -> str:
        """Return (n, t, width) as (n, heads, t, 64); turned, as (n, heads, 64, t)."""
        split = self.reshape(x, [0, 0, self.tower.width // HEAD, HEAD])
        return self.graph.node("Transpose", [split], {"perm": [0, 2, 3, 1] if turned else [0, 2, 1, 3]})

    def linear(self, x: str, name: str) -> str:
        """Return x Wᵀ + b."""
        product = self.graph.node("MatMul", [x, self.matrix(f"{name}.weight")])
        return self.graph.node("Add", [product, self.graph.constant(self.tower.array(f"{name}.bias"))])

    def norm(self, x: str, name: str) -> str:
        """Return the layer norm of each token."""
        settings = [self.graph.constant(self.tower.array(f"{name}.{each}")) for each in ("weight", "bias")]
        return self.graph.node("LayerNormalization", [x, *settings], {"axis": -1, "epsilon": EPSILON})

    def first(self, x: str, *, keep: bool = False) -> str:
        """Return the class token, (n, width), or (n, 1, width) to keep the axis."""
        place = self.graph.constant(np.array([0] if keep else 0, np.int64))
        return self.graph.node("Gather", [x, place], {"axis": 1})

    def projected(self, c: str, projection: ClipProjection) -> str:
        """Return W c + b, plus W₂ gelu(W₁ c + b₁) where the projection has a hidden layer."""
        graph = self.graph

        def linear(x: str, weight: Floats, bias: Floats) -> str:
            product = graph.node("MatMul", [x, graph.constant(weight.T)])
            return graph.node("Add", [product, graph.constant(bias)])

        vector = linear(c, projection.weight, projection.bias)
        if projection.hidden is None:
            return vector
        a = linear(c, projection.hidden.weight, projection.hidden.bias)
        half, root, one = (graph.constant(np.float32(each)) for each in (0.5, 0.5**0.5, 1))
        gate = graph.node("Add", [graph.node("Erf", [graph.node("Mul", [a, root])]), one])
        gelu = graph.node("Mul", [graph.node("Mul", [a, half]), gate])  # a/2 · (1 + erf(a/√2))
        return graph.node("Add", [vector, graph.node("MatMul", [gelu, graph.constant(projection.hidden.out.T)])])

    def unit(self, x: str, output: str = "") -> str:
        """Return the rows scaled to length 1."""
        length = self.graph.node("ReduceL2", [x], {"axes": [-1], "keepdims": 1})
        return self.graph.node("Div", [x, length], output=output)

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        """Return another view; 0 keeps an axis, -1 is what remains."""
        return self.graph.node("Reshape", [x, self.graph.constant(np.array(shape))])

    def matrix(self, name: str) -> str:
        """Return Wᵀ, (in, out); onnxruntime computes it from 8 bits once, when it loads the model."""
        weight = self.tower.weights[name]
        if not isinstance(weight, Quantized):
            return self.graph.constant(weight.T)
        whole = self.graph.node("Cast", [self.graph.constant(weight.values)], {"to": TYPES["float32"]})
        return self.graph.node("Mul", [whole, self.graph.constant(weight.scale)])
