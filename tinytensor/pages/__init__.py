"""Pictures on pages: a page of HTML that stands alone, and a picture in a notebook."""
