"""The table of `usage.sqlite3` and what it is asked, as SQL. `egressd.store` runs it."""

from typing import Final

FORMAT: Final = 2
TUNNEL: Final = "tunnel"
"""The API of a tunnel's row."""
MOST_ROWS: Final = 1_000
"""Of an answer, which is one frame."""
_MOST_SESSIONS: Final = 500

SCHEMA: Final = """
CREATE TABLE calls (
  call TEXT NOT NULL,
  source TEXT NOT NULL,
  session TEXT NOT NULL,
  destination TEXT NOT NULL,
  api TEXT NOT NULL,
  auth TEXT NOT NULL,
  billing TEXT NOT NULL,
  model TEXT NOT NULL,
  status INTEGER,
  ended TEXT,
  partial INTEGER NOT NULL,
  began TEXT NOT NULL,
  finished TEXT,
  input_tokens INTEGER,
  output_tokens INTEGER,
  cache_read_tokens INTEGER,
  cache_write_5m_tokens INTEGER,
  cache_write_1h_tokens INTEGER,
  reasoning_tokens INTEGER,
  nusd INTEGER,
  counted_tokens INTEGER NOT NULL DEFAULT 0,
  counted_nusd INTEGER NOT NULL DEFAULT 0,
  up_bytes INTEGER,
  down_bytes INTEGER,
  PRIMARY KEY (call, source, session)
) STRICT;
CREATE INDEX calls_by_time ON calls (began);
CREATE INDEX calls_by_session ON calls (session, began);
CREATE INDEX calls_by_day ON calls (destination, began);
CREATE INDEX calls_left ON calls (source) WHERE ended IS NULL;
"""
"""`nusd` is the price of the tokens reported, null where there was none. `counted_…` is what spend limits count: what
was reserved while a call is under way, and where the provider's count is not known."""

FROM_1: Final = """
INSERT INTO calls (call, source, session, destination, api, auth, billing, model, status, ended, partial, began,
  finished, input_tokens, output_tokens, cache_read_tokens, reasoning_tokens, counted_tokens)
SELECT call, 'egress', session, destination, 'openai-chat', 'key', 'metered', model, status, ended, partial, began,
  finished, input_tokens, output_tokens, cache_read_tokens, reasoning_tokens,
  coalesce(input_tokens, 0) + coalesce(output_tokens, 0)
FROM calls_1;
DROP TABLE calls_1;
"""

_TOKENS: Final = "coalesce(input_tokens, 0) + coalesce(output_tokens, 0)"
_SINCE: Final = "status IS NOT NULL AND began >= :since AND (:session IS NULL OR session = :session)"
USED: Final = f"""
SELECT destination, model, status, count(*) AS calls, sum(input_tokens) AS input_tokens,
  sum(output_tokens) AS output_tokens, sum(cache_read_tokens) AS cache_read_tokens, source, billing,
  sum(partial) AS partial, sum(cache_write_5m_tokens) AS cache_write_5m_tokens,
  sum(cache_write_1h_tokens) AS cache_write_1h_tokens, sum(reasoning_tokens) AS reasoning_tokens,
  sum(up_bytes) AS up_bytes, sum(down_bytes) AS down_bytes,
  CASE WHEN :by_day THEN substr(began, 1, 10) END AS day
FROM calls WHERE {_SINCE}
GROUP BY day, destination, model, status, source, billing
ORDER BY day DESC, sum({_TOKENS}) DESC, calls DESC, 1, 2, 3, source, billing
LIMIT {MOST_ROWS}
"""  # noqa: S608  (parts of our own)
_METERED: Final = "source = 'egress' AND billing = 'metered'"
COSTS: Final = f"""
SELECT session, sum(source = 'egress') AS calls, sum(iif({_METERED}, coalesce(nusd, 0), 0)) AS nusd,
  sum(iif({_METERED} AND nusd IS NOT NULL, {_TOKENS}, 0)) AS metered_tokens,
  json_group_array(DISTINCT model) FILTER (WHERE {_METERED} AND nusd IS NULL) AS unpriced_models,
  sum(iif({_METERED} AND nusd IS NULL, {_TOKENS}, 0)) AS unpriced_tokens,
  sum(iif(source = 'egress' AND billing = 'plan', {_TOKENS}, 0)) AS plan_tokens,
  sum(iif(source = 'harness', {_TOKENS}, 0)) AS harness_tokens,
  sum(iif({_METERED}, partial, 0)) AS partial
FROM calls WHERE {_SINCE}
GROUP BY session
ORDER BY nusd DESC, unpriced_tokens DESC, plan_tokens DESC, harness_tokens DESC, max(began) DESC, session
LIMIT {_MOST_SESSIONS}
"""  # noqa: S608
TOTAL: Final = f"SELECT coalesce(sum(nusd), 0) FROM calls WHERE {_METERED} AND {_SINCE}"  # noqa: S608
OF_SESSION: Final = """
SELECT coalesce(sum(counted_tokens), 0), coalesce(sum(counted_nusd), 0) FROM calls
WHERE source = 'egress' AND session = ? AND destination = ?
"""
OF_DAY: Final = """
SELECT coalesce(sum(counted_tokens), 0), coalesce(sum(counted_nusd), 0) FROM calls
WHERE source = 'egress' AND destination = ? AND began >= ? AND began < ?
"""
SETTLED: Final = """
UPDATE calls SET status = :status, ended = :ended, partial = :partial, finished = :finished,
  model = coalesce(:model, model), input_tokens = :input_tokens, output_tokens = :output_tokens,
  cache_read_tokens = :cache_read_tokens, cache_write_5m_tokens = :cache_write_5m_tokens,
  cache_write_1h_tokens = :cache_write_1h_tokens, reasoning_tokens = :reasoning_tokens, nusd = :nusd,
  counted_tokens = :counted_tokens, counted_nusd = :counted_nusd, up_bytes = :up_bytes, down_bytes = :down_bytes
WHERE source = 'egress' AND call = :call
"""
REPORTED: Final = """
INSERT OR REPLACE INTO calls (call, source, session, destination, api, auth, billing, model, status, ended, partial,
  began, finished, input_tokens, output_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens,
  reasoning_tokens)
VALUES (:call, 'harness', :session, :destination, '', 'subscription', 'plan', :model, 200, 'complete', 0,
  coalesce((SELECT began FROM calls WHERE source = 'harness' AND session = :session AND call = :call), :now), :now,
  :input_tokens, :output_tokens, :cache_read_tokens, :cache_write_5m_tokens, :cache_write_1h_tokens, :reasoning_tokens)
"""
MODELS: Final = f"""
SELECT DISTINCT destination, model FROM calls
WHERE status BETWEEN 200 AND 299 AND api <> '{TUNNEL}' AND model <> ''
ORDER BY destination, model LIMIT {MOST_ROWS}
"""  # noqa: S608
COUNT_OF: Final = f"SELECT count(*) FROM calls WHERE source = 'egress' AND session = ? AND api <> '{TUNNEL}'"  # noqa: S608
LEFT: Final = """
UPDATE calls SET status = 0, ended = 'stopped', finished = ?, nusd = iif(counted_nusd > 0, 0, NULL) WHERE ended IS NULL
"""
