"""The words that made-up names and addresses are put together of: 64 of each, so that six bits of a hash pick one."""

from __future__ import annotations

from typing import Final


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FIRST_NAMES: Final = _words(
    """
    Ada Aiko Alma Amir Anouk Arlo Asta Bela Bruno Cara Cyril Dana Dario Edda Elio Enya Ezra Femi Flora Franka Gina Goran
    Greta Hana Hugo Ida Ilja Ines Ivo Jana Jonas Juna Kaja Karim Kira Lani Leif Lena Lino Luca Maja Malik Mara Milo Mina
    Nadja Nico Nora Odin Olga Oskar Pia Quinn Rafa Rosa Runa Sami Selma Tariq Thea Timo Vera Yara Zeno
    """
)
LAST_NAMES: Final = _words(
    """
    Abel Adler Amsel Arend Bach Baumgart Berg Birke Brand Busch Dorn Drossel Eiche Elster Engel Erle Falk Farn Feld Fink
    Forst Fuchs Gabel Ginster Grau Habicht Hain Halm Hase Heide Holm Hummel Igel Imker Jansen Kamp Kiesel Klee Kranich
    Lerche Linde Luchs Marder Meise Moor Nebel Otter Pappel Quast Rabe Reh Rohr Sand Specht Star Stein Sturm Tann Ulme
    Vogel Wald Weide Wolf Zeisig
    """
)
STREETS: Final = tuple(
    f"{name} {kind}"
    for kind in _words("Street Lane Road Square")
    for name in _words(
        "Acorn Bridge Cedar Dune Elm Fern Garden Harbour Ivy Kite Lantern Maple North Orchard Pebble Reed"
    )
)
CITIES: Final = tuple(
    f"{first}{last}"
    for first in _words("Amber Birch Clear Dove Elder Fair Gold High")
    for last in _words("bridge brook dale field ford haven ton wick")
)
EMAIL_DOMAIN: Final = "example.com"
"""Reserved: mail to it reaches nobody."""
PHONE_PREFIX: Final = "+999"
"""Reserved: no country has it."""
