"""Answer questions about a folder of notes and photos: isthmus finds, a language model of LlamaIndex answers.

python examples/rag_llamaindex.py "How long does the sourdough rise?"

The model here is LlamaIndex's own fake, which repeats what it was shown: no key and no network are needed. Put any
model in its place, as ``Anthropic(model="…")``. Pictures are image nodes, which some engines show to a model.
"""

from __future__ import annotations

import sys

from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import ResponseMode

from isthmus import Collection, samples
from isthmus.integrations.llamaindex import IsthmusIndexRetriever
from isthmus.integrations.shared import RetrieverOptions


def engine(things: Collection) -> RetrieverQueryEngine:
    """Return an engine from a question to an answer, with its sources."""
    options = RetrieverOptions(k=3, picture_size=256, min_probability=0.05)
    retriever = IsthmusIndexRetriever(things, options)
    return RetrieverQueryEngine.from_args(retriever, llm=MockLLM(), response_mode=ResponseMode.COMPACT)


def main(question: str) -> None:
    with Collection.open(":memory:", calibration="center+standardize") as things:
        things.index(samples.folder(), ocr="never")
        answer = engine(things).query(question)
        for source in answer.source_nodes:
            print(f"{source.score:.0%}  {source.node.node_id}")
        print(answer)


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]) or "How long does the sourdough rise?")
