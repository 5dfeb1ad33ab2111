"""Writes the training corpus, the held-out dialogues and the prompts of the evaluation, all from one seed."""

import argparse
import json
import random
from pathlib import Path

from judge import right
from topics import Teller

HERE = Path(__file__).parent
# How often a topic begins a part of a dialogue.
WEIGHTS = {"chat": 11, "weft": 11, "timer": 7, "timer_cancel": 1, "light": 9, "music": 8, "weather": 6, "name": 5,
           "name_ask": 1, "arithmetic": 30, "fact": 16, "story": 4, "unknown": 12, "repeat": 5, "shopping": 9}
END = "<|endoftext|>\n"  # between dialogues
LONGEST = 1150  # characters of a dialogue, which then nearly always fits into a row of the trainer
# 200 prompts: topic, how many, and how many turns come before (their text is fixed in the file).
PROMPTS = [("chat", 22), ("weft", 20), ("timer", 14), ("light", 12), ("music", 9), ("weather", 8), ("arithmetic", 26),
           ("country", 14), ("colour", 8), ("sound", 4), ("legs", 4), ("baby", 4), ("unit", 10), ("story", 12),
           ("unknown", 18), ("name memory", 6), ("device memory", 9)]


def render(turns, system=None):
    """The text of a dialogue as the chat template of export.py writes it."""
    text = f"<|im_start|>system\n{system}<|im_end|>\n" if system else ""
    for turn in turns:
        text += f"<|im_start|>user\n{turn.user}<|im_end|>\n<|im_start|>assistant\n{turn.answer}<|im_end|>\n"
    return text


def dialogue(teller):
    """Turns about one or several topics; some look back at the last device or at the name."""
    rng = teller.rng
    memory = {"last": None, "name": None}
    turns = []
    parts = rng.choices([1, 2, 3, 4, 5, 6, 8], [36, 24, 14, 10, 7, 5, 4])[0]
    topics = rng.choices(list(WEIGHTS), list(WEIGHTS.values()), k=parts)
    for topic in topics:
        turns += getattr(teller, topic)(memory)
        last = memory["last"]
        if last and rng.random() < 0.3:
            follow = ["it_off", "it_off", "which_device"] + (["also", "also"] if last[0] == "light" else [])
            turns += getattr(teller, rng.choice(follow))(memory)
        if memory["name"] and rng.random() < 0.3:
            turns += teller.name_ask(memory)
    return turns


def fits(turns):
    return sum(len(turn.user) + len(turn.answer) + 30 for turn in turns) <= LONGEST


def dialogues(teller, characters):
    """Rendered dialogues, one after the other, until they have that many characters."""
    written = 0
    while written < characters:
        turns = dialogue(teller)
        while not fits(turns):
            turns.pop()
        system = None
        if teller.rng.random() < 0.03:
            system = teller.rng.choice(["You are pocket, a small assistant.", "You are a helpful assistant.",
                                        "You are a helpful household device.", "Answer in one short sentence."])
        text = render(turns, system)
        written += len(text)
        yield text


def remembering(teller, topic):
    """The turns of a prompt that needs what was said before."""
    memory = {"last": None, "name": None}
    if topic == "name memory":
        turns = teller.name(memory)
        for between in teller.rng.choice([[], ["fact"], ["light", "arithmetic"]]):
            turns += getattr(teller, between)(memory)
        return turns + teller.name_ask(memory)
    turns = getattr(teller, teller.rng.choice(["light", "light", "timer", "music"]))(memory)
    while memory["last"] is None:
        turns = teller.music(memory)
    follow = ["it_off", "it_off", "which_device"] + (["also"] if memory["last"][0] == "light" else [])
    return turns + getattr(teller, teller.rng.choice(follow))(memory)


def prompts(teller):
    """The evaluation's prompts: what is said, the rule and what it expects. No two alike."""
    seen = set()
    for topic, count in PROMPTS:
        sections = {"chat": teller.chats, "weft": teller.wefts}.get(topic)
        order = teller.rng.sample(sections, len(sections)) if sections else None
        for i in range(count):
            while True:
                if order:
                    turns = [teller.told(order[i % len(order)])]
                elif "memory" in topic:
                    turns = remembering(teller, topic)
                else:
                    turns = getattr(teller, topic)({"last": None, "name": None})
                if render(turns) not in seen:
                    break
            seen.add(render(turns))
            asked = turns[-1]
            if not right(asked.rule, asked.expect, asked.answer):
                raise SystemExit(f"the rule {asked.rule} {asked.expect} finds the template's own answer wrong: {asked.answer!r}")
            messages = []
            for turn in turns:
                messages += [{"role": "user", "content": turn.user}, {"role": "assistant", "content": turn.answer}]
            yield {"topic": topic, "messages": messages[:-1], "rule": turns[-1].rule, "expect": turns[-1].expect}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="takes corpus.txt and heldout.txt")
    parser.add_argument("--recipe", type=Path, default=HERE / "recipe.json")
    args = parser.parse_args()
    recipe = json.loads(args.recipe.read_text())
    args.folder.mkdir(parents=True, exist_ok=True)

    training = Teller(random.Random(recipe["seed"]))
    with open(args.folder / "corpus.txt", "w", encoding="utf-8", newline="") as file:
        for text in dialogues(training, recipe["corpus_characters"]):
            file.write(text + END)
    held_out = Teller(random.Random(recipe["seed"] + 1), held_out=True)
    with open(args.folder / "heldout.txt", "w", encoding="utf-8", newline="") as file:
        file.writelines(text + END for text in dialogues(held_out, recipe["heldout_characters"]))
    asked = Teller(random.Random(recipe["seed"] + 2), held_out=True)
    lines = [json.dumps(prompt, ensure_ascii=False) + "\n" for prompt in prompts(asked)]
    (args.folder / "prompts.jsonl").write_text("".join(lines), encoding="utf-8")

    both = training.shapes & (held_out.shapes | asked.shapes)
    if both:
        raise SystemExit(f"held-out ways to ask are in the training corpus: {sorted(both)[:5]}")
    for name, values in training.lists.items():
        if set(values) & set(asked.lists[name]):
            raise SystemExit(f"held-out fillers are in the training list {name}")
    print(f"{len(training.shapes)} ways to ask in training, {len(held_out.shapes | asked.shapes)} held out, none in both")


if __name__ == "__main__":
    main()
