"""Information from the operating system about this machine's ports."""
