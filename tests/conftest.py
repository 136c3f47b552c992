from hypothesis import settings

# One fixed set of examples: what passes here passes everywhere, and no test depends on the machine's speed.
settings.register_profile("isthmus", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("isthmus")
