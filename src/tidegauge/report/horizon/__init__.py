"""Charts, texts and the page of horizon fits and studies."""
