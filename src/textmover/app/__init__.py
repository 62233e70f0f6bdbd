"""Browser page: score and explain texts, and collect ratings (extra ``app``)."""
