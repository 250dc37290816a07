"""What both of OpenAI's APIs count, under whatever names: the counts of an answer, and the usage that they make."""

import msgspec

from egressd.meter.usage import Usage, cache_writes, whole_output


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens as they were reported; None where none were. What is cached is in the prompt."""

    prompt: int | None = None
    output: int | None = None
    total: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    cache_write_short: int | None = None
    cache_write_long: int | None = None
    reasoning: int | None = None

    @property
    def usage(self) -> Usage:
        """The tokens in the one form that all meters give."""
        short, long = cache_writes(self.cache_write, self.cache_write_short, self.cache_write_long)
        return Usage(
            input_tokens=self.prompt,
            output_tokens=whole_output(self.output, self.reasoning, self.prompt, self.total),
            cache_read_tokens=self.cache_read,
            cache_write_5m_tokens=short,
            cache_write_1h_tokens=long,
            reasoning_tokens=self.reasoning,
        )
