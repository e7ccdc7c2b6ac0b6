"""The network of this machine: what the operating system tells about its ports."""
