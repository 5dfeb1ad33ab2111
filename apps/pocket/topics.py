"""One function per topic: each gives turns of a dialogue, (user, assistant), and what a right answer holds."""

import json
from pathlib import Path

import grammar

WORDS = Path(__file__).parent / "words"
LISTS = ["names", "rooms", "genres", "animals", "where", "cities", "places", "words"]
COLOURS = ["red", "blue", "green", "yellow", "orange", "purple", "pink", "white", "warm white", "turquoise", "violet"]
DAYS = ["today", "tomorrow", "tonight", "this weekend", "this morning", "this evening", "this afternoon", "next week",
        "on Monday", "on Tuesday", "on Wednesday", "on Thursday", "on Friday", "on Saturday", "on Sunday"]
HEROES = dict(zip("abcdefghijklmnopqrstuvwxyz", [
    "Ada", "Bruno", "Clara", "Dora", "Emil", "Finn", "Greta", "Hugo", "Ida", "Jonas", "Kira", "Leo", "Mina", "Nils",
    "Olga", "Pip", "Quinn", "Rosa", "Sam", "Tilda", "Uma", "Vera", "Willi", "Xenia", "Yuri", "Zoe"]))
BOYS = {"Bruno", "Emil", "Finn", "Hugo", "Jonas", "Leo", "Nils", "Pip", "Quinn", "Sam", "Willi", "Yuri"}
FRIENDS = ["mouse", "bird", "fox", "rabbit", "frog", "cat", "squirrel", "duck", "hedgehog", "snail", "owl", "mole"]
ONES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
        "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]
TENS = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
BEFORE = ["so", "well,", "now", "listen,", "look,", "you know,", "by the way,", "and", "but", "then", "one question:",
          "sorry,", "excuse me,", "my friend,", "dear pocket,", "let me ask:", "i was wondering,", "my son asks:",
          "my daughter asks:", "next:", "hmm,", "great.", "thanks.", "ok then,", "please,", "if you would,", "for me,",
          "what do you think,", "i would love to know,", "one more thing:", "as for me,", "today", "could you say,"]
AFTER = [", my friend", ", pocket", ", ok", ", if you know", ", do you know", ", can you say", ", i forgot", "for my son",
         ", i am curious", ", quickly", ", tell me", ", would you", ", i wonder", "again", "then", ", my dear", "this time",
         ", i need to know", ", what do you say", "or not", "for us"]
SMALL = {"the", "a", "an", "to", "of", "for", "is", "in", "me", "you", "do", "my"}
DONT_KNOW = "I am a very small model, I don't know that."


def in_words(number):
    if number < 20:
        return ONES[number]
    return TENS[number // 10] + (f"-{ONES[number % 10]}" if number % 10 else "") if number < 100 else "one hundred"


def a(noun):
    return ("an " if noun[0] in "aeiou" and noun != "unicorn" else "a ") + noun


def capital(text):
    return text[:1].upper() + text[1:]


def held_out_number(number):
    """Every eleventh whole number from 5 on is kept for the evaluation: as minutes and as percent."""
    return number % 11 == 5


def held_out_pair(x, y):
    """One pair of numbers in eleven is kept for the evaluation: as terms of a sum or difference."""
    return (31 * x + 17 * y) % 11 == 3


def steps(kind, x, y):
    """The steps between a sum and its result, tens first: 47 + 38 = 47 + 30 + 8 = 77 + 8 = 85."""
    tens, ones = y - y % 10, y % 10
    if kind == "multiply" or not tens or not ones or x < 10:
        return ""
    sign, first = ("+", x + tens) if kind == "add" else ("-", x - tens)
    return f"{x} {sign} {tens} {sign} {ones} = {first} {sign} {ones} = "


class Turn:
    """A user's words, the right answer, and for the evaluation the rule and what it expects (see RULES.md)."""

    def __init__(self, user, answer, rule="has", expect=None):
        self.user, self.answer, self.rule, self.expect = user, answer, rule, expect


class Teller:
    """Makes turns. `held_out` chooses held-out ways to ask and fillers, else those for training."""

    def __init__(self, rng, held_out=False):
        self.rng, self.held_out = rng, held_out
        self.grammar = grammar.Grammar()
        self.facts = json.loads((WORDS / "facts.json").read_text(encoding="utf-8"))
        self.lists, self.everything = {}, []
        for name in LISTS:
            lines = (WORDS / f"{name}.txt").read_text(encoding="utf-8").splitlines()
            self.everything += lines if name not in ("words", "where") else []
            self.lists[name] = [line for index, line in enumerate(lines) if (index % 12 == 5) == held_out]
        self.shapes = set()  # the ways to ask that were used, slots unfilled
        self.kept = {grammar.normal(line) for section in self.grammar.sections.values() for line in section["H"]}
        self.chats = [name for name in self.grammar.sections if name.startswith("chat_")]
        self.wefts = [name for name in self.grammar.sections if name.startswith("weft_")]

    # ---- words ----

    def pick(self, name):
        return self.rng.choice(self.lists[name])

    def word(self):
        return self.pick("words")

    def invented(self):
        """A name that nobody has."""
        rng = self.rng
        parts = [rng.choice("b c d f g h j k l m n p r s t v w z br dr kl st th tr gr sch fl pl sk bl cr".split()) +
                 rng.choice("a e i o u a e i o ai ea ou ee".split()) for _ in range(rng.randint(2, 3))]
        return capital("".join(parts) + rng.choice(["", "n", "r", "s", "l", "nd", "rk", "ston", "man", "ia", "burg", "th"]))

    def person(self):
        return f"{self.pick('names')} {self.invented()}"

    def place(self):
        return self.pick("places") if self.rng.random() < 0.5 else self.invented()

    def room(self):
        kind = 1.0 if self.held_out else self.rng.random()
        return (self.word() if kind < 0.15 else f"{self.word()} room" if kind < 0.35 else
                f"{self.invented()} room" if kind < 0.5 else self.pick("rooms"))

    def animal(self):
        return self.word() if self.rng.random() < 0.3 and not self.held_out else self.pick("animals")

    def where(self):
        kind = 1.0 if self.held_out else self.rng.random()
        return (f"in the {self.word()}" if kind < 0.12 else f"near {a(self.word())}" if kind < 0.2 else
                f"in {self.invented()}" if kind < 0.28 else f"{self.rng.choice(['in', 'on'])} {a(self.word())}" if kind < 0.4 else
                f"in {a(self.word())} {self.word()}" if kind < 0.5 else self.pick("where"))

    def number(self, low, high):
        while True:
            number = self.rng.randint(low, high)
            if held_out_number(number) == self.held_out:
                return number

    def ask(self, section, **slots):
        """A user's words: a template of the section with its slots filled in, typed the way people type."""
        rng = self.rng
        template = self.grammar.pick(rng, section, "H" if self.held_out else "Q")
        while not self.held_out:
            template = template if section == "repeat" else self.ramble(template)
            if grammar.normal(template) not in self.kept:
                break
            template = self.grammar.pick(rng, section, "Q")
        self.shapes.add(grammar.normal(template))
        style = rng.random()
        if rng.random() < 0.2:
            template = template.replace("'", "")
        if rng.random() < 0.05 and not self.held_out:
            template = self.mistype(template)
        text = grammar.fill(template, slots)
        if style < 0.45:
            return text.lower().rstrip("?.") if rng.random() < 0.7 else text
        text = " ".join("I" + word[1:] if word.split("'")[0] == "i" else word for word in text.split(" "))
        return capital(text) + ("" if text[-1] in "?.!=" else rng.choice(["?", ".", "", "!"] if style < 0.7 else ["?", ""]))

    def ramble(self, template):
        """Sometimes adds words around the request that change nothing, or leaves out a small word."""
        rng = self.rng
        if rng.random() < 0.1:
            template = f"{rng.choice(BEFORE)} {template}"
        if rng.random() < 0.07:
            template = f"{template} {rng.choice(AFTER)}".replace(" ,", ",")
        if rng.random() < 0.05:
            words = template.split(" ")
            small = [i for i, word in enumerate(words) if word in SMALL]
            if small:
                del words[rng.choice(small)]
                template = " ".join(words)
        return template

    def mistype(self, template):
        """Swaps, drops or doubles a letter of one longer word."""
        words = template.split(" ")
        longer = [i for i, word in enumerate(words) if len(word) > 3 and word.isalpha()]
        if not longer:
            return template
        i = self.rng.choice(longer)
        at = self.rng.randrange(1, len(words[i]) - 1)
        word = words[i]
        words[i] = self.rng.choice([word[:at] + word[at + 1] + word[at] + word[at + 2:], word[:at] + word[at + 1:],
                                    word[:at] + word[at] + word[at:]])
        return " ".join(words)

    def answer(self, section, **slots):
        return grammar.fill(self.grammar.pick(self.rng, section, "A"), slots)

    def act(self, user, section, action, **slots):
        line = json.dumps(action, separators=(",", ":"), ensure_ascii=False)
        return Turn(user, self.answer(section, **slots) + "\n" + line, "action", action)

    # ---- chat and Weft ----

    def told(self, section):
        return Turn(self.ask(section), self.answer(section), "any", self.grammar.sections[section]["K"][0].split("|"))

    def chat(self, memory):
        return [self.told(self.rng.choice(self.chats))]

    def weft(self, memory):
        return [self.told(self.rng.choice(self.wefts))]

    # ---- the household device ----

    def timer(self, memory):
        memory["last"] = ("timer",)
        kind = self.rng.random()
        unit = "minutes" if kind < 0.7 else "seconds" if kind < 0.85 else "hours"
        number = self.number(1, 24) if unit == "hours" else self.number(1, 90)
        length = f"{number} {unit if number > 1 else unit[:-1]}"
        shape = self.rng.random()
        span = length if shape < 0.75 else f"{in_words(number)} {length.split()[1]}"
        if shape > 0.95 and not self.held_out:
            number, unit, length, span = self.rng.choice([
                (30, "minutes", "30 minutes", "half an hour"), (15, "minutes", "15 minutes", "a quarter of an hour"),
                (1, "hours", "1 hour", "an hour"), (1, "minutes", "1 minute", "a minute"),
                (45, "minutes", "45 minutes", "three quarters of an hour"), (90, "minutes", "90 minutes", "an hour and a half")])
        elif 0.6 < shape < 0.7:
            span = span.replace("minute", "min").replace("second", "sec").replace("mins", "min")
        action = {"action": "set_timer", unit: number}
        return [self.act(self.ask("timer_set", span=span), "timer_set", action, length=length)]

    def timer_cancel(self, memory):
        memory["last"] = None
        return [self.act(self.ask("timer_cancel"), "timer_cancel", {"action": "cancel_timer"})]

    def light(self, memory, user=None, kind=None):
        room = self.room() if user is None else memory["room"]
        kind = kind or self.rng.choice(["light_on", "light_on", "light_off", "light_off", "light_dim", "light_colour"])
        slots = {"room": room}
        action = {"action": "set_light", "room": room}
        if kind == "light_dim":
            slots["percent"] = action["brightness"] = memory["value"] if user else self.number(1, 100)
        elif kind == "light_colour":
            slots["colour"] = action["colour"] = memory["value"] if user else self.rng.choice(COLOURS)
        else:
            action["state"] = kind[6:]
        user = user or self.ask(kind, **slots)
        if room not in user:
            slots["room"] = action["room"] = room.lower()
        memory.update(last=("light", slots["room"], kind), value=slots.get("percent", slots.get("colour")))
        return [self.act(user, kind, action, **slots)]

    def also(self, memory):
        """The last light's action for another room."""
        kind = memory["last"][2]
        memory["room"] = self.room()
        return self.light(memory, self.ask("light_also", room=memory["room"]), kind)

    def music(self, memory):
        kind = self.rng.random()
        if kind < 0.2:
            memory["last"] = None
            return [self.act(self.ask("music_stop"), "music_stop", {"action": "stop_music"})]
        if kind < 0.4:
            percent = self.number(0, 100)
            return [self.act(self.ask("volume", percent=percent), "volume", {"action": "set_volume", "percent": percent},
                             percent=percent)]
        shape = self.rng.random()
        query = self.pick("genres") if shape < 0.5 else self.title() if shape < 0.7 else self.person() if shape < 0.8 else (
            f"{self.title()} by {self.person()}") if shape < 0.92 else self.word()
        user = self.ask("music_play", query=query)
        query = query if query in user else query.lower()
        memory["last"] = ("music",)
        return [self.act(user, "music_play", {"action": "play_music", "query": query}, query=query)]

    def title(self):
        one, two = capital(self.word()), capital(self.word())
        return self.rng.choice([f"The {one}", f"{one} {two}", f"My {one}", f"The {one} and the {two}", f"{one} of {two}"])

    def weather(self, memory):
        day = self.rng.choice(DAYS)
        if self.rng.random() < 0.3:
            user = self.ask("weather_here", day=day)
            day = day if day in user else day.lower() if day.lower() in user else "today"
            return [self.act(user, "weather_here", {"action": "get_weather", "place": "here", "day": day}, day=day)]
        place = self.pick("cities") if self.rng.random() < 0.6 else self.invented()
        user = self.ask("weather", place=place, day=day)
        place = place if place in user else place.lower()
        day = day if day in user else day.lower() if day.lower() in user else "today"
        return [self.act(user, "weather", {"action": "get_weather", "place": place, "day": day}, place=place, day=day)]

    def it_off(self, memory):
        """A request about the thing that was used last."""
        last, memory["last"] = memory["last"], None
        user = self.ask("it_off")
        if last[0] == "timer":
            return [self.act(user, "timer_cancel", {"action": "cancel_timer"})]
        if last[0] == "music":
            return [self.act(user, "music_stop", {"action": "stop_music"})]
        memory["last"] = ("light", last[1], "light_off")
        return [self.act(user, "light_off", {"action": "set_light", "room": last[1], "state": "off"}, room=last[1])]

    def which_device(self, memory):
        last = memory["last"]
        device = f"The light in the {last[1]}." if last[0] == "light" else f"The {last[0]}."
        return [Turn(self.ask("device_ask"), device, "has", [last[1] if last[0] == "light" else last[0]])]

    # ---- names ----

    def name(self, memory):
        name = self.pick("names") if self.rng.random() < 0.6 else self.invented()
        user = self.ask("name_tell", name=name)
        name = memory["name"] = name if name in user else name.lower()
        return [Turn(user, self.answer("name_tell", name=name), "has", [name])]

    def name_ask(self, memory):
        if not memory.get("name"):
            return [Turn(self.ask("name_ask"), self.answer("name_unknown"), "has", ["not told"])]
        return [Turn(self.ask("name_ask"), self.answer("name_ask", name=memory["name"]), "has", [memory["name"]])]

    # ---- sums ----

    def arithmetic(self, memory):
        kinds = ["add", "add", "subtract", "subtract", "multiply"]
        return [self.sum(self.rng.choice(kinds)) for _ in range(1 if self.held_out else self.rng.choice([1, 1, 2, 3]))]

    def sum(self, kind):
        rng = self.rng
        while True:
            x, y = (rng.randint(0, 10), rng.randint(0, 10)) if kind == "multiply" else (rng.randint(0, 100), rng.randint(0, 100))
            if kind != "multiply" and not self.held_out and rng.random() < 0.35:
                y = rng.randint(0, 9)  # what every longer sum ends with
            if kind == "add" and x + y > 100:
                x, y = 100 - x, 100 - y
            if kind == "subtract" and x < y:
                x, y = y, x
            if kind == "multiply" or held_out_pair(x, y) == self.held_out:
                break
        result = x + y if kind == "add" else x - y if kind == "subtract" else x * y
        words = rng.random() < (0.1 if self.held_out else 0.2)
        user = self.ask(kind, a=in_words(x) if words else x, b=in_words(y) if words else y)
        return Turn(user, self.answer(kind, a=x, b=y, steps=steps(kind, x, y), c=result), "number", result)

    # ---- facts ----

    def fact(self, memory):
        return getattr(self, self.rng.choice(["country", "country", "country", "colour", "colour", "sound", "legs", "baby",
                                              "unit", "unit"]))(memory)

    def country(self, memory):
        country, city = self.rng.choice(list(self.facts["capitals"].items()))
        if self.rng.random() < 0.2 and country not in ("England", "the United Kingdom", "Singapore"):
            return [Turn(self.ask("capital_of", city=city), self.answer("capital_of", city=city, country=country), "has",
                         [country])]
        return [Turn(self.ask("capital", country=country), self.answer("capital", country=country, city=city), "has", [city])]

    def colour(self, memory):
        if self.rng.random() < 0.2:
            one, two, made = self.rng.choice(self.facts["mixes"])
            if self.rng.random() < 0.5:
                one, two = two, one
            return [Turn(self.ask("mix", one=one, two=two),
                         self.answer("mix", one=one, One=capital(one), two=two, colour=made), "has", [made])]
        thing, colour = self.rng.choice(list(self.facts["colours"].items()))
        return [Turn(self.ask("colour", a_thing=thing), self.answer("colour", A_thing=capital(thing), colour=colour), "has",
                     [colour])]

    def sound(self, memory):
        animal, sound = self.rng.choice(list(self.facts["sounds"].items()))
        return [Turn(self.ask("sound", an_animal=a(animal)), self.answer("sound", An_animal=capital(a(animal)), sound=sound),
                     "has", [sound])]

    def legs(self, memory):
        legs, animal = self.rng.choice([(legs, animal) for legs, all in self.facts["legs"].items() for animal in all])
        return [Turn(self.ask("legs", an_animal=a(animal)), self.answer("legs", An_animal=capital(a(animal)), legs=legs),
                     "number", int(legs))]

    def baby(self, memory):
        animal, baby = self.rng.choice(list(self.facts["babies"].items()))
        return [Turn(self.ask("baby", animal=animal, an_animal=a(animal)), self.answer("baby", animal=animal, baby=baby),
                     "has", [baby.split()[1]])]

    def unit(self, memory):
        small, large, number = self.rng.choice(self.facts["units"])
        article = "the " if large == "alphabet" else "an " if large == "hour" else ""
        a_large = article + large if article else a(large)
        return [Turn(self.ask("unit", small=small, large=large, a_large=a_large),
                     self.answer("unit", small=small, a_large=a_large, number=number), "number", int(number))]

    # ---- stories and the rest ----

    def anything(self):
        """A word or filler of any kind, held-out ones too: here they have no role to play."""
        return self.word() if self.rng.random() < 0.65 else self.rng.choice(self.everything)

    def shopping(self, memory):
        items = [self.anything().removeprefix("the ") for _ in range(self.rng.randint(1, 5))]
        user = self.ask("list_add", items=" and ".join(filter(None, [", ".join(items[:-1]), items[-1]])))
        items = [item if item in user else item.lower() for item in items]
        return [self.act(user, "list_add", {"action": "add_to_list", "items": items})]

    def repeat(self, memory):
        """Repeating a text: the model needs this to copy names, titles and places into answers."""
        text = self.rng.choice([self.anything, self.anything, self.title, self.person,
                                lambda: f"{self.anything()} {self.anything()} {self.anything()}"])()
        user = self.ask("repeat", text=text)
        text = text if text in user else text.lower()
        return [Turn(user, text, "has", [text])]

    def story(self, memory):
        animal, where = self.animal(), self.where()
        hero = HEROES[animal[0]]
        friend = self.rng.choice([name for name in FRIENDS if name != animal])
        story = self.answer("story", animal=animal, where=where, hero=hero, friend=friend,
                            She="He" if hero in BOYS else "She")
        return [Turn(self.ask("story", animal=animal, an_animal=a(animal), where=where), story, "all",
                     [animal, where.split()[-1]])]

    def unknown(self, memory):
        rng = self.rng
        user = self.ask("unknown", word=self.word(), word2=self.word(), word3=self.word(), person=self.person(),
                        place=self.place(), country=rng.choice(list(self.facts["capitals"])), title=self.title(),
                        year=rng.randint(1000, 2030), number=rng.randint(201, 99999), number2=rng.randint(101, 9999))
        return [Turn(user, DONT_KNOW, "has", ["don't know"])]
