"""A page in the browser: score and explain texts, and collect ratings (extra ``app``)."""
