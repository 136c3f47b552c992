"""Collections in frameworks, one module and one extra each: LangChain, LlamaIndex, Haystack.

Each works over a collection on this machine (``Collection.open``) or on a server (``isthmus.connect``).
"""
