"""Judges whether an answer is right, by the rules of eval/RULES.md."""

import json
import re

REFUSAL = "don't know"


def holds(answer, text):
    """True if the answer has the text as whole words, in upper or lower case."""
    return re.search(r"(?<!\w)" + re.escape(text) + r"(?!\w)", answer, re.I) is not None


def action_of(answer):
    """The JSON object in the answer's last line, or None."""
    try:
        action = json.loads(answer.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return None
    return action if isinstance(action, dict) else None


def folded(action):
    return {key: value.lower() if isinstance(value, str) else value for key, value in action.items()}


def right(rule, expect, answer):
    if rule == "action":
        action = action_of(answer)
        return action is not None and folded(action) == folded(expect)
    if rule == "number":
        numbers = re.findall(r"-?\d+", answer.rpartition("=")[2])
        return len(numbers) == 1 and int(numbers[0]) == expect
    if rule == "has":
        return all(holds(answer, text) for text in expect) and (REFUSAL in expect or REFUSAL not in answer)
    if rule == "any":
        return any(holds(answer, text) for text in expect) and REFUSAL not in answer
    if rule == "all":
        return all(holds(answer, text) for text in expect) and len(answer.split()) >= 20
    raise ValueError(f"there is no rule {rule}")
