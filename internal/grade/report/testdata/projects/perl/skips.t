use Test::More;
plan skip_all => 'nothing to do';
