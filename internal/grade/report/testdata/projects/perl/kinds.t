# Every kind of result that Test::More has.
use strict; use warnings; use utf8;
use Test::More;
binmode(STDOUT, ':utf8');
ok(1, 'passes');
is(1 + 1, 3, 'fails');
ok(1);
ok(1, 'has a # in it');
ok(1, '雪');
ok(1, 'twice');
ok(0, 'twice');
SKIP: { skip 'not here', 2; ok(1, 'never'); ok(1, 'never'); }
TODO: { local $TODO = 'known'; ok(0, 'todo fails'); ok(1, 'todo passes'); }
subtest 'outer' => sub { plan tests => 2; ok(1, 'inner'); subtest 'deeper' => sub { ok(0, 'leaf'); done_testing; }; };
subtest 'all skipped' => sub { plan skip_all => 'not here'; };
note 'a note'; diag 'a diagnostic';
done_testing;
