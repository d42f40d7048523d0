"""Objects and recipients: noun phrases after the verb, clitics before or on it."""

from __future__ import annotations

from . import english, spanish
from .clauses import Clause
from .lexicon import Entry, Noun, Verb
from .noun_phrase import NounPhrase
from .people import someone
from .phrases import noun_phrase, proper
from .tokens import Draw, Phrase, Token, Tokens

_CLITICS = ("me", "te", "", "nos")
_CLITIC_ENGLISH = ("me", "you", "", "us")


def add_clitics(d: Draw, clause: Clause, clitics: Tokens) -> None:
    """Put clitics before the verb, or onto the infinitive where the verb allows it."""
    verb, group = clause.verb, clause.group
    tags = verb.tags if verb is not None else frozenset()
    if group.infinitive_last and ("encr" in tags or ("enc" in tags and d.chance(0.6))):
        word, mask = group.es[-1]
        for _, link in clitics:
            mask |= link
        group.es[-1] = (spanish.enclitic(word, tuple(c for c, _ in clitics)), mask)
    else:
        clause.es_before += clitics


def add_object(d: Draw, clause: Clause, verb: Verb, negated: bool) -> None:
    """Add the direct object of a verb and the one who receives it."""
    choice = d.random()
    with_recipient = bool(verb.recipient) and not (verb.recipient_optional and d.chance(0.5))
    person = verb.human and (not verb.objects or d.chance(0.5))
    if person:
        _add_person(d, clause, choice)
        return
    bare = "noclit" not in verb.tags
    if choice < 0.05 and not with_recipient and not verb.stative and bare:
        en = "anything" if negated else "something"
        clause.add(d.word("nada" if negated else "algo", en))
        return
    if choice < 0.17 and bare and not isinstance(verb.objects[0], Entry):
        _add_thing_clitic(d, clause, with_recipient, verb)
        return
    target = d.pick(verb.objects)
    thing = _thing(d, target, clause.subject, negated)
    clause.object = thing
    if with_recipient:
        _add_recipient(d, clause, verb, thing)
    else:
        clause.add(thing.phrase())


def _thing(d: Draw, target: Noun | Entry, owner: NounPhrase, negated: bool) -> NounPhrase:
    """Return a thing as the object of a verb."""
    if isinstance(target, Entry):
        return proper(d, target)
    tags = target.tags
    if "language" in tags or "subject" in tags:
        return noun_phrase(d, target, kind="bare", modify=0)
    if "instrument" in tags or "sport" in tags:
        thing = noun_phrase(d, target, kind="def", modify=0)
        if "sport" in tags:
            thing.es[0] = (thing.es[0][0], thing.link)
            thing.en = thing.en[1:]
        return thing
    use = "place" if target.letter == "L" else "object"
    return noun_phrase(d, target, use, owner=owner, negated=negated)


def _add_person(d: Draw, clause: Clause, choice: float) -> None:
    """Add a person as the direct object."""
    subject = clause.subject
    verb = clause.verb
    bare_clitic = verb is not None and "noclit" not in verb.tags
    if choice < 0.2 and bare_clitic:
        clitic = _speaker(d, subject)
        if clitic is not None:
            add_clitics(d, clause, clitic.es)
            clause.en_after += clitic.en
            return
    if choice < 0.3 and bare_clitic:
        feminine, many = d.chance(0.5), d.chance(0.4)
        link = d.link()
        es = ("la" if feminine else "lo") + ("s" if many else "")
        en = "them" if many else "her" if feminine else "him"
        add_clitics(d, clause, [(es, link)])
        clause.en_after.append((en, link))
        if verb is not None and verb.objects and not many:
            # lo/la alone would be "it" with a verb that takes things too
            clause.es_after += [("a", link), ("ella" if feminine else "él", link)]
        return
    noun_part = someone(d, subject)
    if noun_part.es[0][0] in ("él", "ella"):
        link = noun_part.link
        add_clitics(d, clause, [("la" if noun_part.feminine else "lo", link)])
    clause.es_after += [("a", noun_part.link), *noun_part.es]
    clause.en_after += noun_part.en


def _speaker(d: Draw, subject: NounPhrase) -> Phrase | None:
    """Return me, te or nos, if the subject does not include them."""
    person = d.pick((0, 0, 1, 3))
    group = {
        english.FIRST: "us",
        english.FIRST_PLURAL: "us",
        english.SECOND: "you",
        english.SECOND_PLURAL: "you",
    }
    mine = "you" if person == 1 else "us"
    if group.get(subject.en_person) == mine:
        return None
    link = d.link()
    return Phrase([(_CLITICS[person], link)], [(_CLITIC_ENGLISH[person], link)])


def _add_thing_clitic(d: Draw, clause: Clause, with_recipient: bool, verb: Verb) -> None:
    feminine, many = d.chance(0.5), d.chance(0.35)
    link = d.link()
    it: Token = (("la" if feminine else "lo") + ("s" if many else ""), link)
    en: Token = ("them" if many else "it", link)
    if not with_recipient:
        add_clitics(d, clause, [it])
        clause.en_after.append(en)
        return
    speaker = _speaker(d, clause.subject) if d.chance(0.5) else None
    if speaker is not None:
        add_clitics(d, clause, [*speaker.es, it])
        clause.en_after += [en, ("to", speaker.es[0][1]), *speaker.en]
        return
    to = d.link()
    person = someone(d, clause.subject)
    add_clitics(d, clause, [("se", to), it])
    clause.es_after += [("a", to), *person.es]
    clause.en_after += [en, ("to", to), *person.en]


def _add_recipient(d: Draw, clause: Clause, verb: Verb, thing: NounPhrase) -> None:
    speaker = _speaker(d, clause.subject) if d.chance(0.4) else None
    if speaker is not None:
        add_clitics(d, clause, speaker.es)
        clause.es_after += thing.es
        if verb.recipient == "rec":
            clause.en_after += [*speaker.en, *thing.en]
        else:
            clause.en_after += [*thing.en, ("to", speaker.en[0][1]), *speaker.en]
        return
    to = d.link()
    person = someone(d, clause.subject)
    add_clitics(d, clause, [("les" if person.person == spanish.ELLOS else "le", to)])
    clause.es_after += [*thing.es, ("a", to), *person.es]
    clause.en_after += [*thing.en, ("to", to), *person.en]
