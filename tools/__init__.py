"""Checks and files of the supply chain: hashes, licences, advisories, bill of materials."""
