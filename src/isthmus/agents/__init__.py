"""Collections for agents: the tools search, get, stats and add, by the Model Context Protocol (``isthmus mcp``)."""
