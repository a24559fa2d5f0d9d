// Names and headings of what is saved: a file says by itself which reports and what it shows.
(function () {
  'use strict';
  const FORGET_MS = 10_000;
  const LONGEST = 120;

  // The labels of the reports of the page, the candidate last.
  function labels() {
    const query = new URLSearchParams(location.search);
    const {tilescope} = window;
    const {reports} = tilescope.frame;
    const ids = [query.get('report') || tilescope.newestReport(), query.get('with')].filter(Boolean);
    return ids.map((id) => reports.find((report) => report.id === id)?.label || id);
  }

  // A part of a file's name that every system takes.
  const part = (text) => text.normalize('NFC').replace(/[^\p{L}\p{N}._-]+/gu, '-').replace(/^[-.]+|-+$/g, '').slice(0, LONGEST);

  window.tilescope_files = {
    /** The name of a file: reports, then what it shows. */
    name: (what, suffix) => [labels().map(part).join('-vs-'), part(what)].filter(Boolean).join('-') + '.' + suffix,
    /** What stands above a picture. */
    heading: (title) => [title, labels().join(' → ')].filter(Boolean).join(' – '),
    save(blob, what, suffix) {
      const link = document.createElement('a');
      link.href = URL.createObjectURL(blob);
      link.download = window.tilescope_files.name(what, suffix);
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), FORGET_MS);
    },
    /** Writes heading and axes above a picture; returns the height that they take. */
    head(context, {title, axes}, colours, width) {
      const lines = [window.tilescope_files.heading(title), axes].filter(Boolean);
      context.font = colours.font;
      context.textBaseline = 'middle';
      lines.forEach((line, number) => {
        context.fillStyle = number ? colours.soft || colours.ink : colours.ink;
        context.fillText(line, 6, 12 + 18 * number, width - 12);
      });
      return window.tilescope_files.headHeight({axes});
    },
    headHeight: ({axes}) => axes ? 42 : 24,
  };

  // A link to a table that the server writes.
  document.addEventListener('click', (event) => {
    const link = /** @type {HTMLAnchorElement} */ (/** @type {Element} */ (event.target).closest?.('a.trace-save'));
    if (!link) return;
    const query = new URL(link.href, location.href).searchParams;
    const range = ['start', 'end'].map((name) => query.get(name)).filter(Boolean);
    link.download = window.tilescope_files.name(['executions', ...range].join('-'), 'csv');
  });
})();
