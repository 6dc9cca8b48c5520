"""OpenAI's Responses API, and compatible ones.

The API has a flat list of items where Clew has messages with parts. The private fields of an item
go into the `extra` of its part:

- a text, image or file has the fields of its content part, and `item` (fields of the item that it
  starts) or `more` (it continues the previous item),
- reasoning has the fields of its item, with `summary` and `content` as lists of lengths that say
  how its text is divided,
- calls and results have the fields of their item, and its `type` unless that is the usual one.

An item without a common form becomes a `Native` part.
"""
