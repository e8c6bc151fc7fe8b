"""The page that `budgie explore` shows: its files in page/, its local server, the models it asks."""
