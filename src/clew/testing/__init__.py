"""Stand-ins that ship: fake servers and conformance checks for your own code.

`stores` and `providers` have the checks; `server` stands in for a model server, with the
`voices` of the APIs.
"""
