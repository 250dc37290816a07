"""The policy: Rego, evaluated by regopy in a process of its own. What it does not clearly allow is denied.

regopy has faults that were reproduced, and each is met here:

- a text put in by `set_input` can forge the output: input goes in only as a JSON term (`engine`), and an answer that is
  not exactly the expected shape, with each key once and known reasons, is a denial (`verdict`);
- a function that it does not have is silently undefined, so that a rule of denial would pass: every call in every
  module is checked when the policy loads (`lint`);
- a pattern can hang or end the process: it runs in a worker that is ended when it takes too long (`worker`, `process`);
- after a failed input the old one stays: the worker ends itself then;
- addresses, paths, patterns and times are computed in Python and go in as booleans and integers (`brokerd.facts`).

`modules` knows the texts, `inforce` keeps the last good policy and notices a change.
"""
