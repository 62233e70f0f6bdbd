"""Rewrite error messages of argparse in the style of all other errors, with hints for common mistakes."""

from __future__ import annotations

import argparse
import difflib
import os
import re
from collections.abc import Collection, Mapping, Sequence

ARGPARSE = {
    r"the following arguments are required: (.*)": "Expected {0}, but got none",
    r"one of the arguments (.*) is required": "Expected one of {0}, but got none",
    r"argument (\S+): invalid choice: '?(.*?)'? \(choose from (.*)\)": "Expected {0} to be one of {2}, but got {1}",
    r"argument (\S+): invalid int value: '(.*)'": "Expected {0} to be a whole number, but got {1}",
    r"argument (\S+): invalid float value: '(.*)'": "Expected {0} to be a number, but got {1}",
    r"argument (\S+): expected (?:one|at least one) argument": "Expected a value after {0}, but got none",
    r"argument (\S+): expected (\d+) arguments": "Expected {1} values after {0}, but got another number of them",
    r"argument (\S+): expected (.*)": "Expected {0} to be {1}",
    r"argument (\S+): not allowed with argument (\S+)": "Expected {1} or {0}, but got both: leave one out",
    r"argument (\S+): ignored explicit argument '(.*)'": "Expected {0} without a value, but got {1}",
    r'expected "subcommand" to be one of .*': "Expected a recipe, as in `textmover train --config FILE`, but got none",
    r"(?:.*path string|Not a valid.*value): (.*)": "Expected a class by path, as in package.module.Class, but got {0}",
    r"unrecognized arguments: ([^-].*)": "Expected a recipe after --config, but got {0} without it",
    r"unrecognized arguments: (.*)": "Expected known options, but got {0}",
}
"""Our message by pattern of the message of argparse."""

SYNONYMS = {"--metric": "--model", "--kinds": "--types"}  # correct option by a common wrong name


def reworded(message: str, known: Collection[str] = ()) -> str:
    """Return a message of argparse in our style; suggest ``known`` options for unknown ones.

    Example:
        >>> reworded("argument --samples: invalid int value: 'many'")
        'Expected --samples to be a whole number, but got many'
        >>> reworded("argument ACTION: invalid choice: 'gett' (choose from 'list', 'get')")
        'Expected ACTION to be one of list, get, but got gett: did you mean get?'
    """
    for pattern, sentence in ARGPARSE.items():
        if match := re.fullmatch(pattern, message):
            values = (one.replace("'", "") if "choose from" in pattern else one for one in match.groups())
            words = [re.sub(r" (?=-)", ", ", one) if "one of the" in pattern else one for one in values]
            near = difflib.get_close_matches(words[1].lower(), words[2].split(", "), 1) if len(words) == 3 else []
            result = sentence.format(*words) + (f": did you mean {near[0]}?" if near else "")
            return result + (did_you_mean(re.split("[ =]", words[0])[0], known) if "known options" in result else "")
    return message


def add_option_hint(message: str, given: Sequence[str], actions: Mapping[str, argparse.Action]) -> str:
    """Say what to do about a second value of an option that may be repeated with one value each."""
    found, option = re.match(r"Expected nothing more, but got ([^:]+)", message), ""
    word = found[1] if found else None
    for name in (one.partition("=")[0] for one in given):
        option = name if name in actions else option
        action = actions.get(option)
        if name == word and isinstance(action, argparse._AppendAction) and action.nargs is None:
            return f"Expected one value after {option}, but also got {word}: repeat {option} before each value"
    return message


def did_you_mean(word: str, known: Collection[str]) -> str:
    """Return a question that suggests known names for an unknown word; empty if none is similar.

    Example:
        >>> [did_you_mean(one, ["--model", "--metric-output"]) for one in ("--metric", "--modle", "--met", "--x")]
        [': did you mean --model?', ': did you mean --model?', ': did you mean --metric-output?', '']
    """
    near = [one for one in known if one == SYNONYMS.get(word)]
    near = near or [one for one in known if len(word) > 3 and one.startswith(word)][:3]
    swapped = [one for one in known if sorted(one) == sorted(word)]  # swapped letters, as in --modle
    near = near or [*swapped, *difflib.get_close_matches(word, known, 1, 0.7)]
    return f": did you mean {' or '.join(dict.fromkeys(near))}?" if near else ""


def add_input_hint(message: str, given: Sequence[str], known: Collection[str]) -> str:
    """Add a hint if a value begins with a dash, or files are named without the option -i, or -t to compare systems."""
    pairs = list(zip(("", *given), given, strict=False))
    flags = "".join(re.findall(r"^Expected a value after (\S+),", message))
    dashed = (one for last, one in pairs if last in flags.split("/") and one[:1] == "-" and one not in known)
    if flags and (value := next(dashed, None)) is not None:
        named = os.path.isfile(value) or (value[:2] != "--" and "." in value)
        hint = f": for a file of this name write ./{value}" if named else did_you_mean(value.partition("=")[0], known)
        return f"Expected a value after {flags}, but got {value}{hint}"
    option = next((one for one in ("-i", "-t") if one in known), "-i")
    if option not in known or option in given or not message.startswith(("Expected one of", "Expected nothing")):
        return message
    # Skip files that are values of another option.
    file = next((one for last, one in pairs if "-" not in (last[:1], one[:1]) and os.path.isfile(one)), None)
    hint = f"Expected {option} before the names of files, but got {file} without it: write {option} {file}"
    return hint + " and -r before the references" * (option == "-t") if file else message
