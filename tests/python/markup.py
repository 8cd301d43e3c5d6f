"""What tests read out of a page."""

from html.parser import HTMLParser

VOID = {"meta", "img", "br", "link", "hr", "input"}


class Markup(HTMLParser):
    """Collects ids, links and text, and checks that tags close in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.fetched, self.text = [], [], [], []
        self.links, self.classes = set(), []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        self.note(tag, attrs)

    def handle_startendtag(self, tag, attrs):
        self.note(tag, attrs)

    def note(self, tag, attrs):
        self.classes.append((tag, dict(attrs).get("class", "")))
        for key, value in attrs:
            if key == "id":
                self.ids.append(value)
            if key in ("src", "href", "xlink:href", "action", "data"):
                if value.startswith("#"):
                    self.links.add(value)
                elif not value.startswith("data:"):
                    self.fetched.append(f"{tag} {key}={value}")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)
