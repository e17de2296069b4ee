"""A program for any Python from 3.6 on, with numpy alone: what submissions answer, and what they plan.

stdin: {"files": [paths], "games": [[observations of one snake, turn by turn]]}. stdout: for each file the logits and
moves of its policy, and, if it plans, the moves of plans of REPLIES replies, and what these plans found.
"""

import importlib.util
import json
import sys

REPLIES = 2


class Unhurried:
    """In place of a clock: a number of replies in all stages, however long they take."""

    def __init__(self, replies):
        self.replies = replies

    def can_begin(self):
        return True

    def fitting(self, wanted):
        return min(wanted, self.replies)

    def fits(self, copies):
        return True

    def timed(self, copies, stage, *arguments):
        return stage(*arguments)


def load(path):
    spec = importlib.util.spec_from_file_location("submission", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def play(module, games):
    moves = []
    for game in games:
        module._match = None
        for observation in game:
            observation = {int(key) if key.isdigit() else key: value for key, value in observation.items()}
            moves.append(module.my_controller(observation, None, False)[0].index(1))
    return moves


def answers(path, games):
    module = load(path)
    found = {"logits": [], "values": [], "replies": []}
    if hasattr(module, "plan"):
        plan = module.plan

        def plan_without_clock(match, team, models, clock):
            moves, values, replies = plan(match, team, models, Unhurried(REPLIES))
            found["values"].append(values.tolist())
            found["replies"].append(replies)
            return moves, values, replies

        module.plan = plan_without_clock
        found["planned"] = play(module, games)
        module.choose = module.choose_by_policy
    logits = module.logits

    def noted_logits(obs):
        result = logits(obs)
        found["logits"].append(result.tolist()[:4])
        return result

    module.logits = noted_logits
    found["moves"] = play(module, games)
    return found


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    found = [answers(path, asked["games"]) for path in asked["files"]]
    json.dump({"python": sys.version_info[:2], "numpy": sys.modules["numpy"].__version__, "found": found}, sys.stdout)
