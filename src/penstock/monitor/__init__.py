"""What a fleet looks like now: documents for the API, the console and the command line.

Each module reads what the processes wrote, to the stores and the data folder, and returns one
document. It needs no process to answer, so a document is complete while some hang.
"""
