"""A refusal: an answer that says no, with the sentence that the asker reads. It is no fault of anybody's."""


class Refusal(Exception):
    """The request is refused, for the reason that the sentence gives."""

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence
        super().__init__(sentence)
