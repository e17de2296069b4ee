"""What tests share: boards, players, trainings, ranks, browsers, clusters. No tests are in here.

Modules with a usage line are programs that tests start in a process of their own.
"""

from pathlib import Path

HELPERS = Path(__file__).resolve().parent
