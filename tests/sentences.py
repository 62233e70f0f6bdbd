"""Made-up sentences: texts of 1 to 12 words, the same for the same seed."""

import random

WORDS = ["a", "the", "cat", "dog", "street", "people", "rain", "walk", "sing", "song", "red", "never"]


def sentences(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 12))) for _ in range(count)]
