// Tables of data: sorted by their headers, shown a part at a time, saved as CSV
// (see webapp/components/data_table.py).
(function () {
  'use strict';
  const PAGE = 200;
  const isMissing = (value) => value === null || value === undefined;
  const count = (value) => value.toLocaleString('en-US');

  /** Kinds whose largest values are of interest, so that the first click on a header shows them. */
  const AMOUNTS = ['bytes', 'count', 'share', 'change'];
  const NUMBERS = [...AMOUNTS, 'place', 'address', 'life', 'error'];

  // The text of a cell. `change` holds a text of its own and is sorted by another column.
  function textOf(column, data, row) {
    const format = window.tilescopeFormats;
    const value = data[column.field][row];
    if (column.kind === 'life') return format.tilescopeLife({start: value, end: data[column.end][row]});
    if (isMissing(value)) return '–';
    if (column.kind === 'bytes') return format.tilescopeBytes(value);
    if (column.kind === 'count' || column.kind === 'place') return format.tilescopeCount(value);
    if (column.kind === 'share') return format.tilescopePercent(value);
    if (column.kind === 'address') return format.tilescopeAddress(value);
    // In a narrow window, a change breaks before its percent, and nowhere else.
    if (column.kind === 'change') return String(value).replace(/ (?!\()/g, '\u00a0');
    return String(value);
  }

  function hintOf(column, data, row) {
    if (column.kind !== 'bytes') return undefined;
    return String(window.tilescopeFormats.tilescopeExactBytes(data[column.field][row])) || undefined;
  }

  /** Fill `{field}` in a template with the values of a row; null where one is missing. */
  function filled(template, data, row, encode) {
    let isWhole = true;
    const text = template.replace(/\{(\w+)\}/g, (_, field) => {
      const value = data[field][row];
      if (isMissing(value) || value === '') isWhole = false;
      return encode(String(value));
    });
    return isWhole ? text : null;
  }

  /** Rows in the order of a column; missing values last, equal ones in the order they came. */
  function sorted(columns, data, sort) {
    const n = columns.length ? data[columns[0].field].length : 0;
    const order = Array.from({length: n}, (_, row) => row);
    const column = sort && columns.find((one) => one.field === sort.field);
    if (!column) return order;
    const values = data[column.sort || column.field];
    const sign = sort.isDown ? -1 : 1;
    return order.sort((a, b) => {
      const one = values[a], other = values[b];
      if (isMissing(one) || isMissing(other)) return Number(isMissing(one)) - Number(isMissing(other)) || a - b;
      const way = typeof one === 'number' ? one - other : String(one).localeCompare(String(other));
      return sign * way || a - b;
    });
  }

  /** The order after a click on a header: first as expected, then the other way, then as it came. */
  function nextSort(sort, column) {
    const isFirstDown = AMOUNTS.includes(column.kind);
    if (!sort || sort.field !== column.field) return {field: column.field, isDown: isFirstDown};
    return sort.isDown === isFirstDown ? {field: column.field, isDown: !isFirstDown} : null;
  }

  // A spreadsheet runs a text that begins so as a formula; names come from reports.
  function csvCell(value) {
    if (isMissing(value)) return '';
    if (typeof value === 'number') return String(value);
    const text = /^[=+\-@\t\r]/.test(value) ? "'" + value : String(value);
    return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  }

  /** All rows with exact numbers: bytes are not rounded, and a lifetime is two columns. */
  function csv(columns, data, order) {
    const fields = columns.flatMap((column) => {
      if (column.kind === 'life') {
        return [['First live step', (row) => data[column.field][row]],
          ['Last live step', (row) => isMissing(data[column.end][row]) ? null : data[column.end][row] - 1]];
      }
      const unit = column.kind === 'bytes' ? ', bytes' : '';
      const field = column.kind === 'change' && column.sort ? column.sort : column.field;
      return [[column.title + unit, (row) => data[field][row]]];
    });
    const lines = [fields.map(([title]) => csvCell(title))];
    for (const row of order) lines.push(fields.map(([, value]) => csvCell(value(row))));
    return lines.map((cells) => cells.join(',') + '\r\n').join('');
  }

  const save = (name, text) => window.tilescope_files.save(new Blob([text], {type: 'text/csv'}), name, 'csv');

  // The order of tables is in the address, `sort=file:field:up,…`.
  const SORT = /^([\w-]+):(\w+):(up|down)$/;
  const sorts = () => (new URLSearchParams(location.search).get('sort') || '').split(',')
    .map((text) => SORT.exec(text)).filter(Boolean);

  function sortOf(file, columns) {
    const found = sorts().find(([, name]) => name === file);
    if (!found || !columns.some((column) => column.field === found[2])) return null;
    return {field: found[2], isDown: found[3] === 'down'};
  }

  function noteSort(file, sort) {
    const kept = sorts().filter(([, name]) => name !== file).map(([text]) => text);
    if (sort) kept.push([file, sort.field, sort.isDown ? 'down' : 'up'].join(':'));
    window.tilescope.changeView({sort: kept.join(',')}, false);
  }

  function cell(column, data, row) {
    const React = window.React;
    const text = window.tilescope_markup.breakable(window.tilescope_text.shown(String(textOf(column, data, row))));
    const href = column.href && filled(column.href, data, row, encodeURIComponent);
    // Tab passes a table in one step; arrow keys move between rows.
    if (href) return React.createElement('a', {href, className: 'page-link', tabIndex: -1}, text);
    if (!column.changes) return text;
    const changes = Object.fromEntries(Object.entries(column.changes)
      .map(([name, template]) => [name, filled(template, data, row, (value) => value)]));
    if (Object.values(changes).includes(null)) return text;
    const change = () => window.tilescope.changeView(changes, true);
    return React.createElement('button', {
      type: 'button', className: 'row-button', tabIndex: -1, onClick: change,
    }, text);
  }

  /** Move between the links of a table: rows up and down, links of a row left and right. */
  function key(event) {
    const region = event.currentTarget;
    const rows = [...region.querySelectorAll('tbody tr')].filter((row) => row.querySelector('a, button'));
    const active = /** @type {HTMLElement} */ (document.activeElement);
    if (event.key === 'Escape' && active !== region) {
      region.focus();
      return;
    }
    if (!rows.length || active.closest('thead')) return;
    const at = rows.findIndex((row) => row.contains(active));
    const last = rows.length - 1;
    const goal = {
      ArrowDown: Math.min(at + 1, last), ArrowUp: Math.max(at - 1, 0), Home: 0, End: last,
      PageDown: Math.min(at + 15, last), PageUp: Math.max(at - 15, 0),
    }[event.key];
    const place = at < 0 ? 0 : [...rows[at].querySelectorAll('a, button')].indexOf(active);
    const aside = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    let next = null;
    if (goal !== undefined) {
      const links = rows[goal].querySelectorAll('a, button');
      next = links[Math.min(place, links.length - 1)];
    } else if (aside !== undefined && at >= 0) {
      next = rows[at].querySelectorAll('a, button')[place + aside];
    }
    if (!next) return;
    event.preventDefault();
    next.focus({preventScroll: true});
    next.closest('tr').scrollIntoView({block: 'nearest'});
  }

  function classOf(column) {
    if (column.kind === 'change') return 'number data-change';
    const kind = column.kind === 'name' ? 'data-name' : '';
    return NUMBERS.includes(column.kind) ? 'number' : kind;
  }

  function header(column, sort, setSort) {
    const React = window.React;
    const isSorted = sort && sort.field === column.field;
    const order = isSorted ? (sort.isDown ? 'descending' : 'ascending') : 'none';
    const mark = isSorted ? (sort.isDown ? ' ▾' : ' ▴') : '';
    const button = React.createElement('button', {
      type: 'button', className: 'sort-button', title: column.hint || undefined,
      onClick: () => setSort(nextSort(sort, column)),
    }, column.title + mark);
    return React.createElement('th', {
      key: column.field, scope: 'col', className: classOf(column), 'aria-sort': order,
    }, button);
  }

  function DataTable(props) {
    const React = window.React;
    const {columns, data, label} = props;
    const [sort, setSort] = React.useState(() => sortOf(props.file, columns));
    React.useEffect(() => {
      const follow = () => setSort((before) => {
        const found = sortOf(props.file, columns);
        return JSON.stringify(found) === JSON.stringify(before) ? before : found;
      });
      follow();
      const events = ['tilescope:address', 'popstate'];
      for (const name of events) window.addEventListener(name, follow);
      return () => { for (const name of events) window.removeEventListener(name, follow); };
    }, [props.file, columns]);
    const choose = (next) => { setSort(next); noteSort(props.file, next); };
    const [more, setMore] = React.useState({data: null, n: PAGE});
    const order = React.useMemo(() => sorted(columns, data, sort), [columns, data, sort]);
    if (!order.length) return React.createElement('div', {className: 'empty-state'}, props.empty);
    const n = more.data === data ? more.n : PAGE;
    const marks = new Set((props.selected || []).map(String));
    const isMarked = (row) => props.mark && marks.has(String(data[props.mark][row]));
    const body = order.slice(0, n).map((row) => React.createElement('tr', {
      key: row, className: isMarked(row) ? 'is-selected' : undefined,
      'aria-current': isMarked(row) ? 'true' : undefined,
    }, columns.map((column) => React.createElement('td', {
      key: column.field, className: classOf(column), title: hintOf(column, data, row),
    }, cell(column, data, row)))));
    const table = React.createElement('table', {className: 'facts data-table', 'aria-label': label},
      React.createElement('thead', null, React.createElement('tr', null,
        columns.map((column) => header(column, sort, choose)))),
      React.createElement('tbody', null, body));
    const buttons = [React.createElement('button', {
      key: 'csv', type: 'button', className: 'text-button', title: 'All rows with exact numbers',
      onClick: () => save(props.file, csv(columns, data, order)),
    }, 'Save CSV')];
    if (n < order.length) {
      buttons.unshift(React.createElement('span', {key: 'note', className: 'grid-note'},
        'First ' + count(n) + ' of ' + count(order.length) + ' rows'),
      React.createElement('button', {
        key: 'more', type: 'button', className: 'text-button',
        onClick: () => setMore({data, n: n + 5 * PAGE}),
      }, 'Show ' + count(Math.min(5 * PAGE, order.length - n)) + ' more'));
    }
    return React.createElement('div', {className: 'data-block'},
      React.createElement('div', {
        className: 'data-scroll', role: 'region', tabIndex: 0, onKeyDown: key,
        'aria-label': label + '; arrow keys move between rows, Enter follows a link',
      }, table),
      React.createElement('div', {className: 'data-foot'}, buttons));
  }

  // The text of a cell of a plain table; sizes have their exact number as a tooltip.
  function plainCell(element) {
    const exact = /^(-?[\d,]+) B$/.exec(element.title || '');
    if (exact) return Number(exact[1].replaceAll(',', ''));
    const text = element.textContent.trim();
    return /^-?\d{1,3}(,\d{3})+$/.test(text) ? Number(text.replaceAll(',', '')) : text;
  }

  function csvOfTable(table) {
    const lines = [...table.rows].map((row) => {
      const cells = [...row.cells].map(plainCell);
      // Nested rows keep their place: the key says what a row is part of.
      if (row.dataset.key) cells[0] = row.dataset.key.split('/').map(() => '').join('  ') + row.cells[0].textContent.replace(/^[▾▸]/, '').trim();
      return cells.map(csvCell).join(',') + '\r\n';
    });
    return lines.join('');
  }

  document.addEventListener('click', (event) => {
    const button = /** @type {HTMLElement} */ (/** @type {Element} */ (event.target).closest?.('button.csv-button'));
    const table = button && button.closest('.csv-block').querySelector('table');
    if (table) save(button.dataset.file, csvOfTable(table));
  });

  window.tilescope_tables = {DataTable, csv, sorted, nextSort, filled};
})();
