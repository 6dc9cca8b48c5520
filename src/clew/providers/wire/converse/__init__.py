"""AWS Bedrock Converse: one API for the models of many vendors."""
