"""The console: a web page that shows what a fleet collects, what is missing, and why.

The page reads everything from the API. This package has only its files and serves them.
"""

from penstock.console.assets import STATIC, ConsoleFiles, is_console_path

__all__ = ["STATIC", "ConsoleFiles", "is_console_path"]
