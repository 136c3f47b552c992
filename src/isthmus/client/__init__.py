"""The Python client of ``isthmus serve``: a collection on a server, used like one on this machine.

    with isthmus.connect("http://localhost:8080", "things", key="isthmus_…") as things:
        things.add([Document(id="a", text="…")])
        things.search("a cat on a red sofa", k=3)

``connect_async`` returns the same with ``await``. Both need the extra ``client``.
"""

from isthmus.client.connection import connect, connect_async

__all__ = ["connect", "connect_async"]
