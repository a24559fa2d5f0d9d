// Reports: recent ones, figures of each, a filter, and two that are compared by ticking them.
(function () {
  'use strict';
  const RECENT = 'tilescope-recent';
  const MOST_RECENT = 6;
  const BATCH = 6;
  const EVERY_MS = 2000;

  function recent() {
    try { return JSON.parse(localStorage.getItem(RECENT) || '[]'); } catch (error) { return []; }
  }

  // The newest first; a pair is an entry of its own.
  function noteRecent(report, candidate) {
    const entry = {id: report.id, label: report.label};
    if (candidate) Object.assign(entry, {with: candidate.id, withLabel: candidate.label});
    const key = (one) => one.id + '+' + (one.with || '');
    const entries = [entry, ...recent().filter((one) => key(one) !== key(entry))].slice(0, 24);
    try { localStorage.setItem(RECENT, JSON.stringify(entries)); } catch (error) { /* private mode */ }
  }
  window.tilescope = Object.assign(window.tilescope || /** @type {TileScope} */ ({}), {noteRecent});

  const {reports} = window.tilescope.frame;
  const byId = (id) => document.getElementById(id);
  if (!byId('recent')) return;  // another page
  /** @type {HTMLTableRowElement[]} */
  const rows = [...document.querySelectorAll('tr[data-report]')].map((row) => /** @type {HTMLTableRowElement} */ (row));

  function showRecent() {
    const known = new Map(reports.map((report) => [report.id, report.label]));
    const entries = recent().filter((one) => known.has(one.id) && (!one.with || known.has(one.with)));
    byId('recent').hidden = entries.length === 0;
    byId('recent-list').replaceChildren(...entries.slice(0, MOST_RECENT).map((one) => {
      const query = new URLSearchParams({report: one.id, ...(one.with ? {with: one.with} : {})});
      const link = document.createElement('a');
      link.className = 'page-link';
      link.href = '/summary?' + query;
      link.textContent = known.get(one.id) + (one.with ? ' → ' + known.get(one.with) : '');
      const item = document.createElement('li');
      item.append(link);
      return item;
    }));
  }
  showRecent();

  // The filter is in the address, so that a link or a reload shows the same rows.
  const find = /** @type {HTMLInputElement} */ (byId('reports-find'));
  const note = byId('reports-note');
  const whole = note?.textContent;
  function filter() {
    const wanted = window.tilescope_search.words(find.value);
    let n = 0;
    for (const row of rows) {
      row.hidden = !window.tilescope_search.fit(wanted, row.textContent);
      if (!row.hidden) n += 1;
    }
    if (!note) return;
    const counted = n ? n + ' of ' + rows.length + ' reports' : 'No report matches; clear the filter to see all.';
    note.textContent = find.value ? counted : whole;
  }
  find.value = new URLSearchParams(location.search).get('find') || '';
  if (find.value) filter();
  find.addEventListener('input', () => {
    filter();
    const address = new URL(location.href);
    if (find.value) address.searchParams.set('find', find.value);
    else address.searchParams.delete('find');
    history.replaceState(history.state, '', address);
  });

  // Two ticked reports are compared, the first one as the baseline.
  /** @type {string[]} */
  const ticked = [];
  for (const row of rows) {
    /** @type {HTMLInputElement} */
    const box = row.querySelector('input.report-tick');
    box.checked = false;
    box.addEventListener('change', () => {
      const at = ticked.indexOf(row.dataset.report);
      if (box.checked) ticked.push(row.dataset.report);
      else ticked.splice(at, 1);
      if (ticked.length === 2) {
        const [report, candidate] = ticked;
        location.assign('/summary?' + new URLSearchParams({report, with: candidate}));
      }
      byId('compare-note').textContent = ticked.length === 1
        ? row.dataset.label + ' is the baseline; tick its candidate.'
        : 'Tick two reports to compare them.';
    });
  }

  // The figures of a report take opening it: they come after the list.
  async function fill(part) {
    const query = new URLSearchParams(part.map((row) => ['id', row.dataset.report]));
    const answer = await fetch('/api/reports/overviews?' + query);
    if (!answer.ok) return [];
    const {overviews, unsettled} = await window.tilescope_text.read(answer);
    for (const row of part) {
      for (const {name, text, href} of overviews[row.dataset.report] || []) {
        const cell = row.querySelector('[data-cell="' + name + '"]');
        if (!cell) continue;
        const shown = href ? document.createElement('a') : document.createTextNode('');
        shown.textContent = text;
        if (shown instanceof HTMLAnchorElement) { shown.href = href; shown.className = 'page-link'; }
        if (cell.textContent !== text) cell.replaceChildren(shown);
      }
    }
    if (find.value) filter();  // what has come may fit, or no longer
    return part.filter((row) => unsettled.includes(row.dataset.report));
  }

  // Fills rows; returns those whose state may change by itself.
  async function fillAll(wanted) {
    const unsettled = [];
    for (let at = 0; at < wanted.length; at += BATCH) unsettled.push(...await fill(wanted.slice(at, at + BATCH)));
    return unsettled;
  }
  (async () => {
    let unsettled = await fillAll(rows);
    document.documentElement.dataset.filled = '1';
    while (unsettled.length) {  // engines write them, or they are being verified
      await new Promise((resolve) => { setTimeout(resolve, EVERY_MS); });
      unsettled = await fillAll(unsettled);
    }
  })().catch(() => {});
})();
