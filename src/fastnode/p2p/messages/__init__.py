"""Binary forms of requests, answers, proposals and transactions."""
