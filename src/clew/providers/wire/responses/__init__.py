"""OpenAI's Responses API, and everything that speaks like it.

A conversation is a flat list of items there; here it is messages made of parts. What an item
says beyond the common fields goes into the `extra` of its part:

- a text, picture or file has the fields of its piece of content, beside them `item` (fields
  of the item that begins with it) or `more` (it goes on with the item before it),
- thinking has the fields of its item, with `summary` and `content` as lists of lengths: how
  its text is cut into pieces,
- calls and results have the fields of their item, and its `type` unless that is the usual one.

An item that has no common form is a `Native`.
"""
