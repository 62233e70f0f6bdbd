"""Words that carry little of what a sentence says."""

from __future__ import annotations

ENGLISH = frozenset(
    """
    a an the this that these those each every either neither both all any some no such same other another own
    i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers
    herself it its itself they them their theirs themselves one who whom whose which what whoever whatever
    am is are was were be been being do does did doing have has had having can could may might must shall should will
    would
    of in on at by for with from to into onto upon about above below under over between among through during before
    after against along across around behind beside besides beyond near off out up down within without toward towards
    until till since per via as than like
    and or but nor so yet if then else because though although while whereas unless whether when where why how
    not only just also too very much more most less least few many quite rather almost even still again ever never here
    there now once already
    s t d ll m re ve
    """.split()  # noqa: SIM905 - a list that is read, and added to, as text
)
"""English function words in lower case, with the endings that tokenizers split off (it's, won't, they'll)."""


def stop_words(choice: str) -> frozenset[str]:
    """The words that a configuration's ``stop_words`` names.

    Example:
        >>> sorted(stop_words("the A an")), len(stop_words("keep")), "the" in stop_words("english")
        (['a', 'an', 'the'], 0, True)
    """
    if choice == "keep":
        return frozenset()
    return ENGLISH if choice == "english" else frozenset(choice.lower().split())
