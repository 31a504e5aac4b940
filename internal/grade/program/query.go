package program

import (
	"context"
	"errors"

	"assay/internal/grade/report"
)

// query tries a case of SQL.
func (c *court) query(ctx context.Context, one *Case, want []outcome) (report.Test, error) {
	table, ordered := one.Table, false
	if table == nil && len(want) == 1 {
		var err error
		if table, err = tableOf(want[0].value); err != nil {
			return report.Test{}, err
		}
		table.Columns = nil // a reference's aliases are its own
		ordered = Orders(string(c.r.Suite.Reference))
		if one.After != "" {
			ordered = Orders(one.After)
		}
	}
	if one.Ordered != nil {
		ordered = *one.Ordered
	}
	got, err := c.stand.table(ctx, one, one.Query)
	var f *fault
	switch {
	case errors.As(err, &f) && f.kind == report.KindAssertion:
		return result(one, report.Failed, f.kind, f.why), nil
	case errors.As(err, &f):
		return result(one, report.Errored, f.kind, f.why), nil
	case err != nil:
		return report.Test{}, err
	case got.raised != nil:
		return result(one, report.Errored, report.KindException, got.raised.String()), nil
	}
	rows, err := tableOf(got.value)
	if err != nil {
		return answer(one, "not a result: "+err.Error()), nil
	}
	return answer(one, table.differ(one.Equal, ordered, rows)), nil
}

// table runs a query; an empty one stands for the source's.
func (s *stand) table(ctx context.Context, one *Case, query string) (outcome, error) {
	t, err := s.talk(ctx)
	if err != nil {
		return outcome{}, err
	}
	defer t.end()
	b := quote([]byte(`{"schema":`), one.Schema)
	if query != "" {
		b = quote(append(b, `,"query":`...), query)
	}
	if one.After != "" {
		b = quote(append(b, `,"after":`...), one.After)
	}
	return t.call(ctx, append(b, '}'))
}
