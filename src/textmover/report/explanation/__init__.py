"""Views of an explanation: text, figure and page."""
