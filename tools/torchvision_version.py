"""Print which torchvision was made for the torch that is installed, as pip takes it: ``torchvision==0.28.*``.

torchvision 0.N was released with torch 2.(N − 15), from 2.0 on. Its wheel on PyPI is built for the torch on PyPI, so a
torch from another index (for CPUs alone, say) does not go with it.
"""

from importlib.metadata import version

if __name__ == "__main__":
    print(f"torchvision==0.{int(version('torch').split('.')[1]) + 15}.*")
